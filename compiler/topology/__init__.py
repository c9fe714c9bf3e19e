"""From checked flows to subtopologies: connects operations, lays them out in stages, and describes them."""
