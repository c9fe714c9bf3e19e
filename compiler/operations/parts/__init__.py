"""Operations that several steps use.

A join is a lookup with projections; an aggregate is an aggregation with projections.
"""
