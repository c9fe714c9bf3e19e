"""Plans and commits epochs, and checks whether a project still fits its log."""
