"""What a candidate would have answered to live requests: worked out afterwards, stored, never given to an agent."""
