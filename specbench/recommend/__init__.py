"""From a run's measurements to what to switch on: method, gamma by batch size, and the engine's flags."""
