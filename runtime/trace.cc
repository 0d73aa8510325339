#include "runtime/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "graph/support/atomic_file.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/text.h"
#include "ops/core/op.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

using What = Span::What;

namespace {

using Json = nlohmann::json;

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

double microseconds(Span::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

bool is_op(const passes::Step& step, const char* op) { return step.node->is(ops::kDomain, op); }

struct Event {
  std::string name;
  const char* category;
  std::string args;  // members of a JSON object
};

Event step_event(const Span& span) {
  const passes::Step& step = *span.step;
  const bool communicates =
      is_op(step, "Bucket") || is_op(step, "AllReduce") || is_op(step, "Await");
  size_t bytes = 0;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i].space != passes::Space::kNone) bytes += step.output_types[i].bytes();
  }
  std::string args =
      fmt::format(R"("op":{},"kernel":{},"block":{},"rows":{},"bytes":{})", quoted(step.node->op),
                  quoted(step.def->name), span.number, span.amount, bytes);
  const double seconds = 1e-6 * microseconds(span.end - span.begin);
  if (step.flops > 0 && seconds > 0) {
    args += fmt::format(R"(,"gflops":{:.1f})", 1e-9 * step.flops / seconds);
  }
  return {step.node->label(), communicates ? "communication" : "compute", std::move(args)};
}

// Gives the spans of one track names and facts; they must come in the order of their beginning.
class Describer {
 public:
  Event event(const Span& span) {
    switch (span.what) {
      case What::kStep:
        if (is_op(*span.step, "AllReduce")) buckets_.push_back(span.step->node->input(0)->name);
        return step_event(span);
      case What::kPartialSums:
        return {"add partial sums", "compute",
                fmt::format(R"("sums":{},"elements":{})", span.number, span.amount)};
      case What::kStateCopies:
        return {"copy states", "compute",
                fmt::format(R"("states":{},"bytes":{})", span.number, span.amount)};
      case What::kSlice:
        return of_bucket("add ", span, "", "communication");
      case What::kWait:
        return of_bucket("wait for ", span, "", "wait");
      case What::kFlight:
        return of_bucket("", span, " in flight", "communication");
      case What::kMicroBatch:
        buckets_.clear();
        return {"micro-batch", "run",
                fmt::format(R"("first_row":{},"rows":{})", span.number, span.amount)};
      case What::kEvaluationPart:
        return {"evaluation part", "run",
                fmt::format(R"("first_row":{},"rows":{})", span.number, span.amount)};
      case What::kTrainStep:
        return {fmt::format("step {}", span.number), "run",
                fmt::format(R"("step":{},"rows":{})", span.number, span.amount)};
      case What::kLoad:
        return {"wait for data", "wait", ""};
      case What::kEvaluation:
        return {"evaluation", "run", fmt::format(R"("epoch":{})", span.number)};
      case What::kCheckpoint:
        return {"write checkpoint", "run", fmt::format(R"("step":{})", span.number)};
    }
    return {};
  }

 private:
  Event of_bucket(const char* before, const Span& span, const char* behind,
                  const char* category) const {
    const auto i = static_cast<size_t>(span.number);
    const std::string name = i < buckets_.size() ? buckets_[i] : "a sum";
    std::string args = fmt::format(R"("bucket":{})", quoted(name));
    if (span.amount > 0) args += fmt::format(R"(,"bytes":{})", span.amount);
    return {before + name + behind, category, std::move(args)};
  }

  std::vector<std::string> buckets_;  // of the current micro-batch, by the number of their sum
};

bool comes_first(const Span& a, const Span& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
}

// Appends the events of one track to a JSON document.
class TrackWriter {
 public:
  TrackWriter(std::string& text, int pid, int tid, Span::Clock::time_point origin)
      : text_(text), pid_(pid), tid_(tid), origin_(origin) {}

  void describe(const char* what, const std::string& args) {
    add(R"("ph":"M","name":"{}","args":{{{}}})", what, args);
  }

  void write(const Span& span) {
    const Event event = describer_.event(span);
    const double begin = microseconds(span.begin - origin_);
    const double end = microseconds(span.end - origin_);
    const std::string common = fmt::format(R"("cat":"{}","name":{},"args":{{{}}})", event.category,
                                           quoted(event.name), event.args);
    if (span.what != What::kFlight) {
      add(R"("ph":"X","ts":{:.3f},"dur":{:.3f},{})", begin, end - begin, common);
      return;
    }
    // One track of a replica has all of its flights.
    add(R"("ph":"b","id":"{}.{}","ts":{:.3f},{})", pid_, flights_, begin, common);
    add(R"("ph":"e","id":"{}.{}","ts":{:.3f},{})", pid_, flights_++, end, common);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const auto out = std::back_inserter(text_);
    fmt::format_to(out, R"({}{{"pid":{},"tid":{},)", text_.back() == '[' ? "\n" : ",\n", pid_,
                   tid_);
    fmt::format_to(out, format, std::forward<Args>(args)...);
    text_ += '}';
  }

  std::string& text_;
  const int pid_, tid_;
  const Span::Clock::time_point origin_;
  Describer describer_;
  int64_t flights_ = 0;
};

}  // namespace

Trace::Trace(const std::vector<std::string>& replicas, int threads_of_each, size_t most_spans)
    : threads_(threads_of_each),
      origin_(Span::Clock::now()),
      lanes_(replicas.size() * static_cast<size_t>(threads_of_each) + 1) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    lane.pid = static_cast<int>(i) / threads_;
    lane.tid = static_cast<int>(i) % threads_;
    const bool loop = i + 1 == lanes_.size();
    const auto replica = static_cast<size_t>(lane.pid);
    lane.process =
        loop ? "training loop" : fmt::format("replica {} ({})", replica, replicas[replica]);
    lane.thread = loop ? "steps" : fmt::format("thread {}", lane.tid);
    lane.spans.resize(std::max<size_t>(most_spans / lanes_.size(), 1));
  }
}

void Trace::record(Track track, const Span& span) {
  Lane& lane = track.replica < 0
                   ? lanes_.back()
                   : lanes_[static_cast<size_t>(track.replica * threads_ + track.thread)];
  if (lane.used == lane.spans.size()) {
    full_.store(true, std::memory_order_relaxed);
    return;
  }
  lane.spans[lane.used++] = span;
  if (span.what == What::kTrainStep && !full()) {
    ++steps_;
    whole_until_ = span.end;
  }
}

std::string Trace::json() const {
  std::string text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"program":"sardonyx","whole_steps":{},"full":{}}},)"
      R"("traceEvents":[)",
      steps_, full());
  for (const Lane& lane : lanes_) {
    TrackWriter writer(text, lane.pid, lane.tid, origin_);
    if (lane.tid == 0) {
      const int place = &lane == &lanes_.back() ? -1 : lane.pid;
      writer.describe("process_name", R"("name":)" + quoted(lane.process));
      writer.describe("process_sort_index", fmt::format(R"("sort_index":{})", place));
    }
    writer.describe("thread_name", R"("name":)" + quoted(lane.thread));
    writer.describe("thread_sort_index", fmt::format(R"("sort_index":{})", lane.tid));
    std::vector<Span> spans(lane.spans.begin(),
                            lane.spans.begin() + static_cast<ptrdiff_t>(lane.used));
    std::stable_sort(spans.begin(), spans.end(), comes_first);
    for (const Span& span : spans) {
      if (full() && steps_ > 0 && span.begin >= whole_until_) break;
      writer.write(span);
    }
  }
  return text + "\n]}\n";
}

namespace {

std::vector<std::string> replica_names(const Session& session) {
  std::vector<std::string> names;
  for (int r = 0; r < session.replicas(); ++r) names.push_back(session.device_name(r));
  return names;
}

}  // namespace

TraceFile::TraceFile(Session& session, std::filesystem::path path, size_t most_spans)
    : session_(session),
      path_(std::move(path)),
      trace_(replica_names(session), session.threads() / session.replicas(), most_spans) {
  session_.set_recorder(&trace_);
}

TraceFile::~TraceFile() {
  if (!closed_) session_.set_recorder(nullptr);
}

void TraceFile::border(const RunState&) {
  if (trace_.full()) try_close();
}

void TraceFile::end(const RunSummary&) { try_close(); }

void TraceFile::try_close() {
  try {
    close();
  } catch (const Error& error) {
    support::warning("there is no trace: {}", error.what());
  }
}

void TraceFile::close() {
  if (closed_) return;
  closed_ = true;
  session_.set_recorder(nullptr);
  const std::string text = trace_.json();
  const std::string_view piece = text;
  support::AtomicFile(path_, {&piece, 1}).commit();
  if (!trace_.full()) return;
  support::notice("{} is full: it holds {}", support::escaped(path_.string()),
                  trace_.steps() == 0   ? "the beginning of the first step"
                  : trace_.steps() == 1 ? "the first step"
                                        : fmt::format("the first {} steps", trace_.steps()));
}

}  // namespace sardonyx::runtime
