"""check_trace.py FILE RANKS: the trace is JSON that Perfetto accepts, and says what the contract asks for.

Every rank is a process and every lane a thread with a name; events of a thread do not overlap; communication names its
bytes, group and reason, computation its cost; the accounting of the summary holds.
"""
import collections
import json
import sys

path, ranks = sys.argv[1], int(sys.argv[2])
with open(path) as file:
    trace = json.load(file)
events = trace["traceEvents"]
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
assert sorted(processes) == list(range(ranks)), processes
assert all(processes[rank].startswith(f"rank {rank}:") for rank in processes), processes

lanes = collections.defaultdict(list)
categories = collections.Counter()
for event in events:
    if event["ph"] != "X":
        continue
    assert event["ts"] >= 0 and event["dur"] >= 0, event
    assert (event["pid"], event["tid"]) in names, event
    lanes[event["pid"], event["tid"]].append(event)
    categories[event["cat"]] += 1
    arguments = event["args"]
    if event["cat"] in ("gemm", "compute"):
        assert arguments["type"] and arguments["memory_bytes"] > 0, event
        assert arguments["flops"] > 0 or event["cat"] == "compute", event
    if event["cat"] == "communication":
        assert arguments["bytes"] > 0 and arguments["group"] and arguments["reason"], event
        assert (arguments["reason"] == "hidden") == (arguments["why"] == ""), event
for lane, own in lanes.items():
    own.sort(key=lambda event: (event["ts"], event["ts"] + event["dur"]))
    for before, after in zip(own, own[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.01, (names[lane], before, after)
for category in ("gemm", "compute", "communication", "wait"):
    assert categories[category] > 0, categories

mean = trace["otherData"]["mean"]
busy = mean["compute_ms"] + mean["comm_ms"] - mean["overlap_ms"]
assert abs(mean["step_ms"] - busy - mean["idle_ms"]) < 1e-9 * mean["step_ms"], mean
assert abs(sum(mean["exposed_ms_by_axis"].values()) - mean["exposed_ms"]) < 1e-6 * mean["step_ms"], mean
assert trace["otherData"]["collectives_of_rank_0"], "no communication"
