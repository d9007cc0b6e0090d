"""Which waits for events keep a recorded process in order.

What is queued in a stream begins when what was queued there before is over, and after
everything that the host has waited for by then; a wait adds what its event was recorded
behind. So each operation has a clock: of every stream, how many operations are over for
sure when it begins (vector clocks; Mattern, "Virtual time and global states of
distributed systems", 1989). A wait without which all clocks are the same is implied by
the others; every other one orders some operations that nothing else does.
"""

import collections
import json

Event = collections.namedtuple("Event", "kind stream event wait")


def read(path):
    """The events of a log of MESHC_EMULATION_LOG: work, record, wait, host. Of several
    processes those of one that waits; all do the same."""
    with open(path, encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    process = next(entry["pid"] for entry in entries if entry.get("call") == "cuStreamWaitEvent")
    found, waits = [], 0
    for entry in entries:
        if entry["pid"] == process:
            call, stream = entry.get("call"), entry.get("stream")
            if call == "cuStreamWaitEvent":
                waits += 1
                found.append(Event("wait", stream, entry["event"], waits))
            elif call == "cuEventRecord":
                found.append(Event("record", stream, entry["event"], None))
            elif call == "cuStreamSynchronize":
                found.append(Event("host", stream, None, None))
            elif call == "cuEventSynchronize":
                found.append(Event("host", None, entry["event"], None))
            elif "operation" in entry and call:
                found.append(Event("work", stream, None, None))
    return found


def split(events):
    """The waits of each program, by number: the host waits for a stream after each."""
    programs = [[]]
    for event in events:
        if event.kind == "wait":
            programs[-1].append(event.wait)
        elif event.kind == "host" and programs[-1]:
            programs.append([])
    return [program for program in programs if program]


def find_needed(events, waits):
    """Those of `waits` that no others imply."""
    clocks = get_clocks(events)
    return [wait for wait in waits if get_clocks(events, wait) != clocks]


def get_clocks(events, without=None):
    """The clock of each operation of `events` but records and waits; `without` one wait."""
    streams = sorted({event.stream for event in events if event.stream is not None})
    places = {stream: place for place, stream in enumerate(streams)}
    nothing = (0,) * len(streams)
    clocks, recorded, found = {stream: nothing for stream in streams}, {}, []
    host = nothing
    for event in events:
        clock = tuple(map(max, clocks.get(event.stream, nothing), host))
        if event.kind == "work":
            found.append(clock)
            place = places[event.stream]
            clock = (*clock[:place], clock[place] + 1, *clock[place + 1:])
        elif event.kind == "record":
            recorded[event.event] = clock
        elif event.kind == "wait" and event.wait != without:
            clock = tuple(map(max, clock, recorded.get(event.event, nothing)))
        elif event.kind == "host":
            done = clock if event.event is None else recorded.get(event.event, nothing)
            host = tuple(map(max, host, done))
        if event.stream is not None:
            clocks[event.stream] = clock
    # What the host reads at the end counts as well.
    return [*found, host]
