"""How keys are stored: as bytes whose order is that of the values, alone or with the times of windows and records."""
