"""The five stages. None knows another; the conductor runs them."""
