"""Action streams of other frameworks as traces."""
