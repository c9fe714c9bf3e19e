"""Operations that steps are made of: a join is a lookup with projections, an aggregate an aggregation with them."""
