"""What the pytest plugin does once it is switched on: names, outcomes, a log per process."""
