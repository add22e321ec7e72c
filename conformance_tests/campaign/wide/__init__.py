"""Wide campaigns: whole batches of thousands of requests as arrays, for profiles whose time is real.

``tables`` says what a trial is made of, ``draw`` makes one from a seed, ``execution`` carries it out, ``model`` judges
it a batch at a time, ``session`` runs many and makes a failing one small. The narrow form beside this one goes deeper:
more kinds of steps, and in a simulated world schedules that can be repeated.
"""
