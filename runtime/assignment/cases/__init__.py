"""Cases of assignment as JSON, which `headwater assign` answers."""
