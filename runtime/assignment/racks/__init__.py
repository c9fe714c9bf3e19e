"""Rack-aware assignment (KIP-925): place tasks so that they read less data from other racks."""
