// Graphs: nodes and their edges, what each node does, and executable graphs.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <variant>

#include "sim/driver/graph_abi.hpp"
#include "sim/driver/kernel.hpp"

namespace headgate::sim::driver {

inline constexpr std::uint32_t kGraphWord = 0x68677068, kNodeWord = 0x68676e64, kExecWord = 0x68676578;

struct Graph;
struct GraphNode;

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
using Work = std::variant<std::monostate, KernelWork, CopyWork, FillWork, HostNodeParams, EventWork, ChildWork>;

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
  bool owned = false;  // by a node, or by an executable graph: not the program's to destroy
};

Pool<Graph>& graph_objects();
Pool<GraphNode>& node_objects();

Graph* make_graph();
void end_graph(Graph* graph);
// A deep copy, child graphs included.
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
CUresult child_work(CUgraph graph, Work* out);
CUresult any_work(const AnyNodeParams& given, Work* out);

// The context in which the node runs; null where any will do.
[[nodiscard]] Context* context_of(const Work& work);

// The command of a kernel, copy or fill, and what it does to memory.
struct Prepared {
  Command command;
  std::function<void()> act;  // empty: nothing
};
CUresult prepare(const Work& work, Prepared* out);

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
  std::uint32_t fork = kNone, done = kNone;  // events where it begins and ends
  std::uint64_t last_stream = 0;             // the id of the stream it was launched to last
};

CUresult exec_of(CUgraphExec handle, Exec** out);
// The nodes of a graph in an order of submission. INVALID_VALUE where a kernel's module is gone.
CUresult flatten(const Graph* graph, std::vector<ExecNode>* out);
// Streams and events for its branches. OUT_OF_MEMORY.
CUresult make_lanes(Exec* exec);
// Neither waits nor stops what runs.
void end_lanes(Exec* exec);
CUresult launch_exec(Exec* exec, CUstream stream, bool per_thread);
// Before a context goes: what its executable graphs have in it.
void forget_graphs(Context* context);
void forget_idle_lanes(const Context* context);

}  // namespace headgate::sim::driver
