"""What several stores do alike."""
