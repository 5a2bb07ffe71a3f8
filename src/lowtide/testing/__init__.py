"""For authors of front ends: random programs, simulated runs of a plan, a trial of a front end as a whole.

>>> from random import Random
>>> from lowtide.testing import check_front_end, random_program, simulate
>>> program = random_program(Random(0))
>>> simulate(program, lowtide.plan(program)).right
>>> check_front_end(FRONT_END, ["model.toy"])
"""

from __future__ import annotations

from lowtide.testing.checking import FrontEndError, FrontEndReport, Tried, check_front_end
from lowtide.testing.machine import MisloweredError
from lowtide.testing.random_programs import random_program
from lowtide.testing.simulation import Simulation, simulate

__all__ = [
    "FrontEndError",
    "FrontEndReport",
    "MisloweredError",
    "Simulation",
    "Tried",
    "check_front_end",
    "random_program",
    "simulate",
]
