"""Runs instances in worker processes: a crash, a hang or a lost device is one case's verdict, and the run goes on."""
