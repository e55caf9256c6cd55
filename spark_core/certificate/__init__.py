"""The certificate of a deletion: what is gone, by what proof, and what still holds the rest."""
