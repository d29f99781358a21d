// Graphs: nodes and their edges, what each node does, and executable graphs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include "sim/driver/graph/graph_abi.hpp"
#include "sim/driver/module/kernel.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint32_t kGraphWord = 0x68677068, kNodeWord = 0x68676e64, kExecWord = 0x68676578;

struct Graph;
struct GraphNode;
struct GraphMemory;
struct Conditional;
struct UserObject;
using Attribute = std::array<char, 64>;  // CUlaunchAttributeValue

// What a node does, with copies of its own of everything it was given.
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
  Graph* graph = nullptr;  // the node's own
};
// An address lives as long as a node, an executable graph or bytes behind it: whichever goes last.
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
  std::vector<Graph*> bodies;  // the node's own
};
using Work = std::variant<std::monostate, KernelWork, CopyWork, FillWork, HostNodeParams, EventWork, ChildWork,
                          AllocateWork, FreeWork, BatchWork, ConditionalWork>;

struct Dependency {
  GraphNode* node = nullptr;
  EdgeData data;
};

struct GraphNode {
  std::atomic<std::uint32_t> word{0};
  Graph* graph = nullptr;
  NodeType type = NodeType::empty;
  Work work;
  std::vector<Dependency> from;
  const GraphNode* cloned_from = nullptr;
};

struct Graph {
  std::atomic<std::uint32_t> word{0};
  std::vector<GraphNode*> nodes;  // in the order of their making
  const Graph* cloned_from = nullptr;
  bool owned = false;       // by a node, or by an executable graph: not the program's to destroy
  Graph* parent = nullptr;  // of a body of a conditional node
  std::vector<std::shared_ptr<Conditional>> handles;  // made for it
  std::map<UserObject*, unsigned> objects;            // references it owns
  bool moved = false;                                 // into a parent: no more to be instantiated by itself
  std::weak_ptr<const void> instance;  // lives with the executable graph, where only one may exist at a time
};

Pool<Graph>& graph_objects();
Pool<GraphNode>& node_objects();

Graph* make_graph();
void end_graph(Graph* graph);
// Of memory nodes and conditional ones (cuda.h): cannot be cloned, lose nodes or edges, or have two executable graphs.
[[nodiscard]] bool is_unique(const Graph* graph);
// A deep copy, child graphs included. A copy of a unique graph is for looking at only.
Graph* clone_graph(const Graph* graph);
void copy_graph(const Graph* from, Graph* to);
CUresult graph_of(CUgraph handle, Graph** out);
CUresult node_of(CUgraphNode handle, GraphNode** out);
inline CUgraphNode handle_of(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

// Adds a node behind these. INVALID_VALUE where one of them is of another graph or comes twice.
CUresult add_node(Graph* graph, NodeType type, Work work, const std::vector<Dependency>& behind, GraphNode** out);
// The list of a call's `dependencies` and edge data (null: plain ones).
CUresult dependencies_of(const Graph* graph, const CUgraphNode* nodes, const EdgeData* data, std::size_t count,
                         std::vector<Dependency>* out);

// The work of a node from what a call was given; checked as far as a driver checks it.
CUresult kernel_work(const KernelNodeParamsV1& given, CUkernel kern, CUcontext context, Work* out);
CUresult captured_kernel(const Function* function, const Shape& shape, void** parameters, void** extra,
                         const CUlaunchConfig* config, KernelWork* out);
CUresult copy_work(const CopyParams& given, CUcontext context, Work* out);
CUresult fill_work(const FillNodeParams& given, CUcontext context, Work* out);
CUresult host_work(const HostNodeParams& given, Work* out);
CUresult event_work(CUevent event, Work* out);
CUresult child_work(CUgraph graph, bool move, Work* out);
CUresult batch_work(const BatchNodeParams& given, Work* out);
CUresult any_work(const AnyNodeParams& given, Work* out);

// The context in which the node runs; null where any will do.
[[nodiscard]] Context* context_of(const Work& work);

// One command of a kernel, copy, fill or operation on a word, and what it does to memory.
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

// A node of an executable graph. A child graph is an empty node, its own nodes, and another empty node.
struct ExecNode {
  const GraphNode* key = nullptr;  // the node of the graph it was made of
  NodeType type = NodeType::empty;
  Work work;
  std::vector<FlatEdge> from;
  std::vector<std::vector<ExecNode>> bodies;  // of a conditional node, each in an order of submission
  bool enabled = true;
  bool overlaps = false;              // may start before the node before it in its lane has ended
  std::uint32_t lane = 0;             // a stream of its own; 0 is the stream it is launched to
  std::vector<std::uint32_t> others;  // nodes of other lanes that it waits for
  std::uint32_t event = kNone;        // recorded behind it, for nodes of other lanes
};

struct Lane {
  Context* context = nullptr;
  Stream* stream = nullptr;   // of [0]: only where the launching stream is of another context
  std::uint32_t end = kNone;  // event
};

struct Exec {
  std::atomic<std::uint32_t> word{0};
  std::mutex lock;
  Graph* made_of = nullptr;  // a copy
  cuuint64_t flags = 0;
  std::vector<ExecNode> nodes;  // in an order in which they may be submitted
  std::vector<Lane> lanes;
  std::vector<std::shared_ptr<GraphMemory>> allocates, frees;  // of its nodes
  std::shared_ptr<const void> instance;                        // of a unique graph
  std::uint32_t fork = kNone, done = kNone;                    // events where it begins and ends
  Stream* last = nullptr;                                      // that it was launched to last, if it is still the same
  std::map<cuuint64_t, unsigned> conditions;                   // by handle
  std::uint64_t last_stream = 0;                               // the id of the stream it was launched to last
};

CUresult exec_of(CUgraphExec handle, Exec** out);
// The nodes of a graph in an order of submission. INVALID_VALUE where a kernel's module is gone.
CUresult flatten(const Graph* graph, std::vector<ExecNode>* out);
// Streams and events for its branches. OUT_OF_MEMORY.
CUresult make_lanes(Exec* exec);
// Neither waits nor stops what runs.
void end_lanes(Exec* exec);
// The commands of each node, all that the driver would refuse refused before anything is sent; what kernels set decides
// which bodies come, how often. LAUNCH_TIMEOUT where that has no end.
CUresult unroll(Exec* exec, std::vector<std::vector<Prepared>>* out);
CUresult launch_exec(Exec* exec, CUstream stream, bool per_thread);
// References of a graph to user objects: a copy has as many; the end gives them back.
void share_objects(const Graph* from, Graph* to);
void release_objects(Graph* graph);
// Before the end of a graph whose last launch may still run: its references go when that stream has come so far.
void outlive_launch(Graph* graph, Stream* stream, std::uint64_t stream_id);
// Before a context goes: what its executable graphs have in it.
void forget_graphs(Context* context);
void forget_idle_lanes(const Context* context);

}  // namespace headgate::sim::driver
