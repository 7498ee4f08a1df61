"""Facts of the GPU that a profiler's own files state: architecture, compute units, XCDs, shader engines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.device import list_devices, load_device

EVERY_AGENT = "*"
"""Key of facts that hold for all dispatches of a profile."""

# Compute units that a die of the architecture has at most; a statement beyond it is wrong.
# Sources: AMD CDNA 3 and CDNA 4 architecture white papers (40 and 36 on the die).
_MOST_CUS_OF_XCD = {"gfx942": 40, "gfx950": 36}


@dataclass(frozen=True)
class Agent:
    """One GPU as the profiler saw it; a partition counts as one. None where nothing states a figure."""

    architecture: str
    compute_units: int | None = None
    xcds: int | None = None
    shader_engines: int | None = None
    simds_per_cu: int | None = None
    source: str = ""

    def constants(self) -> dict[str, int | None]:
        """The figures under the names that formulas use."""
        return {"CU": self.compute_units, "XCD": self.xcds, "SE": self.shader_engines, "SIMD": self.simds_per_cu}

    def describe(self) -> str:
        """One line."""
        figures = ", ".join(f"{name} {'unknown' if value is None else value}" for name, value in self._named())
        return f"{self.architecture or 'unknown architecture'}: {figures}" + (
            f" ({self.source})" if self.source else ""
        )

    def _named(self) -> list[tuple[str, int | None]]:
        return [("CUs", self.compute_units), ("XCDs", self.xcds), ("shader engines", self.shader_engines)]


def agent_key(label: str) -> str:
    """`Agent 2`, `2` and `"2"` are the same agent."""
    found = re.search(r"(\d+)\s*\"?$", label)
    return found.group(1) if found else label.strip()


def agent_of_facts(facts: Mapping[str, object], source: str) -> Agent | None:
    """The agent of rocprofiler's agent record (keys in lower case); None for a CPU."""
    if str(facts.get("agent_type", facts.get("type", "GPU"))).upper() in ("CPU", "1"):
        return None
    return Agent(
        architecture=str(facts.get("name", "")),
        compute_units=_positive(facts.get("cu_count")),
        xcds=_positive(facts.get("num_xcc")),
        shader_engines=_positive(facts.get("num_shader_banks")),
        simds_per_cu=_positive(facts.get("simd_per_cu")),
        source=source,
    )


def agent_of_system(facts: Mapping[str, str], source: str) -> tuple[Agent, list[str]]:
    """The agent of rocprof-compute's sysinfo, and what is wrong with it."""
    agent = Agent(
        architecture=facts.get("gpu_arch", ""),
        compute_units=_positive(facts.get("cu_per_gpu")),
        xcds=_positive(facts.get("num_xcd")),
        shader_engines=_positive(facts.get("se_per_gpu")),
        simds_per_cu=_positive(facts.get("simd_per_cu")),
        source=source,
    )
    return checked(agent)


def checked(agent: Agent) -> tuple[Agent, list[str]]:
    """The agent without a count of XCDs that cannot be, and the problem. What replaces it is a known device's count."""
    most = _MOST_CUS_OF_XCD.get(agent.architecture)
    if not (most and agent.xcds and agent.compute_units) or agent.compute_units <= most * agent.xcds:
        return agent, []
    said = f"{agent.source} says {agent.xcds} XCD for {agent.compute_units} CUs, but an XCD has at most {most}"
    whole = [load_device(name) for name in list_devices()]
    counts = {d.xcds for d in whole if d.arch == agent.architecture and d.compute_units == agent.compute_units}
    if len(counts) != 1:
        return replace(agent, xcds=None), [f"{said}; the XCD count is unknown: name the device"]
    xcds = counts.pop()
    return replace(agent, xcds=xcds), [f"{said}; {xcds} is used, as every {agent.architecture} with that many CUs has"]


def agent_of_device(name: str) -> Agent:
    """The agent of a device description: the whole GPU as one agent."""
    device = load_device(name)
    return Agent(
        architecture=device.arch,
        compute_units=device.compute_units,
        xcds=device.xcds,
        simds_per_cu=device.simds_per_cu,
        source=f"device {device.name}, whole GPU as one partition",
    )


def agent_for(label: str, agents: Mapping[str, Agent]) -> Agent | None:
    """The facts of a dispatch's agent: its own, else those that all GPUs share."""
    for key in (agent_key(label), EVERY_AGENT):
        if key in agents:
            return agents[key]
    return shared(agents.values())


def shared(agents: Iterable[Agent]) -> Agent | None:
    """The facts that all agents agree on; None if they are of several kinds or there is none."""
    kinds = set(agents)
    return kinds.pop() if len(kinds) == 1 else None


def _positive(value: object) -> int | None:
    text = str(value).strip()
    return int(text) if text.isdigit() and int(text) > 0 else None
