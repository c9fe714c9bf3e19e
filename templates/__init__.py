"""The Jinja templates of generated code (`*.py.j2`), and the files that `headwater init` writes (`init/`).

Templates lay out; what they lay out is computed in `compiler.emit` and handed over as one frozen dataclass each.
"""
