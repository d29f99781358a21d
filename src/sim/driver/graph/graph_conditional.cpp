#include "sim/driver/graph/graph_conditional.hpp"

#include <algorithm>

namespace headgate::sim::driver {
namespace {

enum : unsigned { kIf = 0, kWhile = 1, kSwitch = 2 };  // cuda.h: CUgraphConditionalNodeType
constexpr unsigned kAssignDefault = 1;                 // cuda.h: CU_GRAPH_COND_ASSIGN_DEFAULT
constexpr std::size_t kMaxCommands = 100'000;          // limit for one node of a launch

struct Conditionals {
  std::mutex lock;
  std::map<cuuint64_t, std::weak_ptr<Conditional>> known;
};
Conditionals& conditionals() { return forever<Conditionals>(); }

std::shared_ptr<Conditional> find(cuuint64_t handle) {
  const std::lock_guard guard(conditionals().lock);
  const auto found = conditionals().known.find(handle);
  return found == conditionals().known.end() ? nullptr : found->second.lock();
}

bool size_fits(unsigned type, unsigned size) {
  switch (type) {
    case kIf: return size == 1 || size == 2;
    case kWhile: return size == 1;
    case kSwitch: return size >= 1;
    default: return false;
  }
}

// Returns the body that the handle's value selects for one iteration; null if none.
const std::vector<ExecNode>* chosen(const ExecNode& node, unsigned type, unsigned value) {
  switch (type) {
    case kIf: return value != 0 ? node.bodies.data() : node.bodies.size() == 2 ? &node.bodies[1] : nullptr;
    case kWhile: return value != 0 ? node.bodies.data() : nullptr;
    default: return value < node.bodies.size() ? &node.bodies[value] : nullptr;
  }
}

// State of one launch while its nodes are walked.
struct Walk {
  Exec* exec;
  std::map<const GraphNode*, std::uint64_t> rounds;  // left, for kernels that count down

  void apply(const ExecNode& node, const KernelWork& kernel) {
    const Function* function = object<Function>(kernel.function);
    const ptx::Behaviour& behaviour = function->entry->behaviour;
    if (!behaviour.handle_parameter) return;
    const auto handle = ptx::number_parameter(*function->entry, *behaviour.handle_parameter, kernel.block);
    auto value = ptx::number_parameter(*function->entry, *behaviour.condition_parameter, kernel.block);
    if (!handle || !value) return;
    if (behaviour.counts_down) *value -= std::min(*value, ++rounds[node.key]);
    if (const auto known = exec->conditions.find(*handle); known != exec->conditions.end())
      known->second = static_cast<unsigned>(*value);
  }

  CUresult choose(const ExecNode& node, const Conditional& conditional, std::vector<Prepared>* out) {
    while (true) {
      const std::vector<ExecNode>* body = chosen(node, conditional.type, exec->conditions[conditional.handle]);
      if (body == nullptr) return CUDA_SUCCESS;
      for (const ExecNode& one : *body) SIM_TRY(add(one, out));
      if (conditional.type != kWhile) return CUDA_SUCCESS;
      if (out->size() > kMaxCommands || body->empty()) return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
  }

  CUresult add(const ExecNode& node, std::vector<Prepared>* out) {
    if (const auto* chooses = std::get_if<ConditionalWork>(&node.work)) return choose(node, *chooses->conditional, out);
    if (const auto* batch = std::get_if<BatchWork>(&node.work)) return prepare_batch(*batch, out);
    if (node.type > NodeType::fill || !node.enabled) return CUDA_SUCCESS;
    Prepared& prepared = out->emplace_back();
    SIM_TRY(prepare(node.work, &prepared));
    if (node.overlaps) prepared.command.detail = kOverlapsPredecessor;
    if (const auto* kernel = std::get_if<KernelWork>(&node.work)) apply(node, *kernel);
    return CUDA_SUCCESS;
  }

  void start(const std::vector<ExecNode>& nodes) {
    for (const ExecNode& node : nodes) {
      if (const auto* chooses = std::get_if<ConditionalWork>(&node.work)) {
        const Conditional& conditional = *chooses->conditional;
        unsigned& value = exec->conditions[conditional.handle];
        if (conditional.assigned_at_launch) value = conditional.at_launch;
      }
      for (const auto& body : node.bodies) start(body);
    }
  }
};

}  // namespace

CUresult unroll(Exec* exec, std::vector<std::vector<Prepared>>* out) {
  out->resize(exec->nodes.size());
  Walk walk{exec, {}};
  walk.start(exec->nodes);
  for (std::size_t i = 0; i < exec->nodes.size(); ++i) SIM_TRY(walk.add(exec->nodes[i], &(*out)[i]));
  return CUDA_SUCCESS;
}

CUresult conditional_work(const ConditionalNodeParams& given, Work* out) {
  ConditionalWork work{find(given.handle), {}};
  if (work.conditional == nullptr || work.conditional->has_node || !size_fits(given.type, given.size))
    return CUDA_ERROR_INVALID_VALUE;
  Context* context = work.conditional->context;
  if (given.context != nullptr) SIM_TRY(context_of(given.context, &context));
  if (context != work.conditional->context) return CUDA_ERROR_INVALID_VALUE;
  work.conditional->type = given.type;
  work.conditional->told.assign(given.size, nullptr);
  return give(out, std::move(work));
}

CUresult conditional_may_join(const Graph* graph, const Work& work) {
  const auto* chooses = std::get_if<ConditionalWork>(&work);
  if (chooses == nullptr) return CUDA_SUCCESS;
  for (const Graph* one = graph; one != nullptr; one = one->parent)
    if (one == chooses->conditional->graph) return CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

void conditional_joined(Graph* graph, Work& work) {
  auto* chooses = std::get_if<ConditionalWork>(&work);
  if (chooses == nullptr) return;
  chooses->conditional->has_node = true;
  for (CUgraph& told : chooses->conditional->told) {
    Graph* body = make_graph();
    body->owned = body->moved = true;
    body->parent = graph;
    chooses->bodies.push_back(body);
    told = reinterpret_cast<CUgraph>(body);
  }
}

CUresult conditionals_complete(const Graph* graph) {
  const bool complete = std::ranges::all_of(graph->handles, [](const auto& one) { return one->has_node; });
  return complete ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void forget_handles(Graph* graph) {
  const std::lock_guard guard(conditionals().lock);
  for (const auto& one : graph->handles) {
    one->graph = nullptr;
    conditionals().known.erase(one->handle);
  }
  graph->handles.clear();
}

SIM_API CUresult cuGraphConditionalHandleCreate(cuuint64_t* out, CUgraph handle, CUcontext context_handle,
                                                unsigned at_launch, unsigned flags) {
  SIM_ENTER(cuGraphConditionalHandleCreate);
  if (!out || flags > kAssignDefault) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Graph, graph, resolve(handle, &graph));
  auto made = std::make_shared<Conditional>();
  SIM_TRY(context_or_current(context_handle, &made->context));
  made->graph = graph;
  made->handle = library().next_id.fetch_add(1);
  made->at_launch = at_launch;
  made->assigned_at_launch = flags == kAssignDefault;
  const std::lock_guard guard(conditionals().lock);
  conditionals().known[made->handle] = made;
  *out = made->handle;
  graph->handles.push_back(std::move(made));
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
