// Graphs: nodes and their edges, what each node does, and executable graphs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <variant>

#include "sim/driver/graph/graph_abi.hpp"
#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {

struct Graph;
struct GraphNode;
struct GraphMemory;
struct Conditional;
struct UserObject;
using Attribute = std::array<char, 64>;  // CUlaunchAttributeValue

// What a node does. It copies everything that it was given.
struct KernelWork {
  CUfunction function = nullptr;
  Shape shape{};
  std::vector<std::byte> block;   // the parameters, as the GPU sees them
  std::vector<void*> parameters;  // into block
  std::map<unsigned, Attribute> attributes;

  KernelWork() = default;
  KernelWork(const KernelWork& other);
  KernelWork& operator=(const KernelWork& other);
  KernelWork(KernelWork&&) = default;
  KernelWork& operator=(KernelWork&&) = default;
  ~KernelWork() = default;
};
struct CopyWork {
  CopyParams copy{};
  Context* context = nullptr;
};
struct FillWork {
  FillNodeParams fill{};
  Context* context = nullptr;
};
struct EventWork {
  Event* event = nullptr;
};
struct ChildWork {
  Graph* graph = nullptr;  // owned by the node
};
// The address stays reserved until its node, its executable graph and the bytes behind it are all gone.
struct AllocateWork {
  std::shared_ptr<GraphMemory> memory;
};
struct FreeWork {
  std::shared_ptr<GraphMemory> memory;
};
struct BatchWork {
  BatchNodeParams told{};
  std::shared_ptr<std::vector<ValueOperation>> operations;  // told.operations points there
  Context* context = nullptr;
};
struct ConditionalWork {
  std::shared_ptr<Conditional> conditional;
  std::vector<Graph*> bodies;  // owned by the node
};
using Work = std::variant<std::monostate, KernelWork, CopyWork, FillWork, HostNodeParams, EventWork, ChildWork,
                          AllocateWork, FreeWork, BatchWork, ConditionalWork>;

struct Dependency {
  GraphNode* node = nullptr;
  EdgeData data;
};

struct GraphNode : Handled<0x68676e64, CUDA_ERROR_INVALID_VALUE> {
  Graph* graph = nullptr;
  NodeType type = NodeType::empty;
  Work work;
  std::vector<Dependency> from;
  const GraphNode* cloned_from = nullptr;
};

struct Graph : Handled<0x68677068, CUDA_ERROR_INVALID_VALUE> {
  std::vector<GraphNode*> nodes;  // in order of creation
  const Graph* cloned_from = nullptr;
  bool owned = false;       // by a node or an executable graph; the program may not destroy it
  Graph* parent = nullptr;  // of a conditional node's body
  std::vector<std::shared_ptr<Conditional>> handles;  // created for this graph
  std::map<UserObject*, unsigned> objects;            // number of references it owns
  bool moved = false;                                 // into a parent: cannot be instantiated alone any more
  std::weak_ptr<const void> instance;  // lives with the executable graph; used if only one may exist at a time
};

Graph* make_graph();
void end_graph(Graph* graph);
// Has memory or conditional nodes (cuda.h): cannot be cloned, lose nodes or edges, or have two executable graphs.
[[nodiscard]] bool is_unique(const Graph* graph);
// Makes a deep copy, child graphs included. The copy of a unique graph is read-only.
Graph* clone_graph(const Graph* graph);
void copy_graph(const Graph* from, Graph* to);
inline CUgraphNode handle_of(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

// Adds a node after these. INVALID_VALUE if one of them is in another graph or listed twice.
CUresult add_node(Graph* graph, NodeType type, Work work, const std::vector<Dependency>& behind, GraphNode** out);
// Reads a call's dependency list and its edge data (null: plain edges).
CUresult dependencies_of(const Graph* graph, const CUgraphNode* nodes, const EdgeData* data, std::size_t count,
                         std::vector<Dependency>* out);

// Build a node's work from a call's parameters, with the checks that a driver makes. INVALID_VALUE if `given` is null.
CUresult kernel_work(const KernelNodeParamsV1* given, Work* out);
CUresult kernel_work(const KernelNodeParams* given, Work* out);
CUresult captured_kernel(const Function* function, const Shape& shape, void** parameters, void** extra,
                         const CUlaunchConfig* config, KernelWork* out);
CUresult copy_work(const CopyParams* given, CUcontext context, Work* out);
CUresult fill_work(const FillNodeParams* given, CUcontext context, Work* out);
CUresult host_work(const HostNodeParams* given, Work* out);
CUresult event_work(CUevent event, Work* out);
CUresult child_work(CUgraph graph, bool move, Work* out);
CUresult batch_work(const BatchNodeParams* given, Work* out);
CUresult any_work(const AnyNodeParams& given, Work* out);

// Returns the context in which the node runs; null if any will do.
[[nodiscard]] Context* context_of(const Work& work);

// One command of a kernel, copy, fill or word operation, and its effect on memory.
struct Prepared {
  Command command;
  std::function<void()> act;  // empty: nothing
};
CUresult prepare(const Work& work, Prepared* out);
CUresult prepare_batch(const BatchWork& batch, std::vector<Prepared>* out);
struct FlatEdge {
  std::uint32_t node = 0;
  EdgeData data;
  friend bool operator==(const FlatEdge&, const FlatEdge&) = default;
};

// A node of an executable graph. A child graph becomes an empty node, its own nodes, and another empty node.
struct ExecNode {
  const GraphNode* key = nullptr;  // the source graph's node
  NodeType type = NodeType::empty;
  Work work;
  std::vector<FlatEdge> from;
  std::vector<std::vector<ExecNode>> bodies;  // a conditional node's bodies, each in order of submission
  bool enabled = true;
  bool overlaps = false;              // may start before its predecessor in the lane has ended
  std::uint32_t lane = 0;             // index of a separate stream; 0 is the stream of the launch
  std::vector<std::uint32_t> others;  // nodes in other lanes that it waits for
  std::uint32_t event = kNone;        // recorded after it; nodes of other lanes wait for it
};

struct Lane {
  Context* context = nullptr;
  Stream* stream = nullptr;   // lane 0: set only if the launching stream is in another context
  std::uint32_t end = kNone;  // event
};

struct Exec : Handled<0x68676578, CUDA_ERROR_INVALID_VALUE> {
  std::mutex lock;
  Graph* made_of = nullptr;  // a copy of the source graph
  cuuint64_t flags = 0;
  std::vector<ExecNode> nodes;  // in order of submission
  std::vector<Lane> lanes;
  std::vector<std::shared_ptr<GraphMemory>> allocates, frees;  // of its memory nodes
  std::shared_ptr<const void> instance;                        // of a unique graph
  std::uint32_t fork = kNone, done = kNone;                    // events at its beginning and end
  Stream* last = nullptr;                                      // stream of the last launch, unless its id changed
  std::map<cuuint64_t, unsigned> conditions;                   // by handle
  std::uint64_t last_stream = 0;                               // id of the stream of the last launch
};

// Lists the graph's nodes in an order of submission. INVALID_VALUE if a kernel's module is gone.
CUresult flatten(const Graph* graph, std::vector<ExecNode>* out);
// Creates streams and events for the branches. OUT_OF_MEMORY.
CUresult make_lanes(Exec* exec);
// Neither waits for running work nor stops it.
void end_lanes(Exec* exec);
// Prepares each node's commands and makes all checks before anything is sent. Values that kernels set decide which
// bodies run and how often. LAUNCH_TIMEOUT if that never ends.
CUresult unroll(Exec* exec, std::vector<std::vector<Prepared>>* out);
CUresult launch_exec(CUgraphExec handle, CUstream stream, bool per_thread);
// A copy takes as many references to user objects as its source has; destroying a graph releases them.
void share_objects(const Graph* from, Graph* to);
void release_objects(Graph* graph);
// Called before destroying a graph that may still run: its references are released when the stream gets there.
void outlive_launch(Graph* graph, Stream* stream, std::uint64_t stream_id);
// Release what executable graphs hold in a context that is being destroyed.
void forget_graphs(Context* context);
void forget_idle_lanes(const Context* context);

}  // namespace headgate::sim::driver
