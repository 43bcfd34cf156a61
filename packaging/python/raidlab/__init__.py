"""A laboratory for storage arrays: simulate, sweep, plan, assess and reproduce arrays of catalogue parts.

    import raidlab
    array = raidlab.Array(level="5", members=8, drive="st3600057ss", controller="perc-h800", strip="64KiB")
    runs = raidlab.simulate(array, workload="md1200-oltp", iodepth=[1, 8, 64])
    runs.to_pandas()

Everything simulated is in virtual time: one seed gives one answer on any machine. Sizes and times are texts with a unit (``"64KiB"``,
``"20s"``); figures carry their unit in their name. What can't be is a :class:`RaidlabError` with the text of the command line.
"""

from ._raidlab import VERSION as __version__
from ._raidlab import RaidlabError
from .arguments import MissingPackage, RaidlabWarning
from .arrays import Array, Catalog
from .controllers import Controller, MemberIo
from .own import OwnDrive, Target
from .program import Answer, compare, fit, plan, reproduce, risk
from .runs import Latency, Run, Runs, Store, Table
from .sweeps import simulate, sweep
from .workloads import OwnWorkload, Workload

__all__ = [
    "Answer",
    "Array",
    "Catalog",
    "Controller",
    "Latency",
    "MemberIo",
    "MissingPackage",
    "OwnDrive",
    "OwnWorkload",
    "RaidlabError",
    "RaidlabWarning",
    "Run",
    "Runs",
    "Store",
    "Table",
    "Target",
    "Workload",
    "__version__",
    "compare",
    "fit",
    "plan",
    "reproduce",
    "risk",
    "simulate",
    "sweep",
]
