"""From files to a positioned tree: YAML read strictly, Jinja rendered, held against the schemas."""
