"""The cheapest choice of banks as CP-SAT of OR-tools finds it: a second opinion on the temporal knapsack."""

from __future__ import annotations

from lowtide.pack.banks.choice import Choices


def least_cost_by_cpsat(choices: Choices, seconds: float) -> tuple[int, int]:
    """Between which two costs the best choice of banks is in which no bank ever holds more than its room.

    They are the same unless the time is up.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    banks = range(len(choices.memory.banks))
    here = [[model.new_bool_var("") for _ in banks] for _ in choices.items]
    for item, places in zip(choices.items, here, strict=True):
        model.add_exactly_one(places)
        for cost, place in zip(item.costs, places, strict=True):
            if cost < 0:
                model.add(place == 0)
    for time in {start for item in choices.items for start, _, _ in item.pieces}:
        for b in banks:
            held = [
                weight * places[b]
                for item, places in zip(choices.items, here, strict=True)
                for start, stop, weight in item.pieces
                if start <= time < stop
            ]
            model.add(sum(held) <= choices.memory.banks[b].room)
    model.minimize(
        sum(
            cost * place
            for item, places in zip(choices.items, here, strict=True)
            for cost, place in zip(item.costs, places, strict=True)
            if cost > 0
        )
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2  # without all of its linear bounds three banks take it minutes
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE), solver.status_name(status)
    return round(solver.best_objective_bound), round(solver.objective_value)
