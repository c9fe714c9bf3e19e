"""The operations of the language, a module for each. None knows another, nor how they are wired to each other."""
