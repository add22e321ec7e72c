"""Cases of L5: every known way in which rings driven by GPU threads hang, lose or lie, one case each.

``docs/hazards.md`` has the table: hazard, case, mutant, clauses.
"""
