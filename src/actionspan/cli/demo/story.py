"""Every word of the demo that is content, in one place, so that a test can look for each of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Story"]


@dataclass(frozen=True, slots=True)
class Story:
    """What customer, models, tools and operators say. Names of agents and tools are not content."""

    instructions: str = "You answer customers of a small bookshop."
    customer: str = "My order 1042 arrived damaged. Can I get my 120 euros back?"
    order_id: str = "1042"
    order: str = "1042: 'The Mezzanine', two copies, 120.00 EUR, delivered"
    parcel: str = "delivered on Tuesday, box dented"
    title: str = "The Mezzanine"
    wrong_copies: str = "a couple"
    recount: str = "The shelf is being counted; ask again."
    shelf: str = "6 copies on the shelf"
    supplier: str = "11 copies at the supplier"
    question: str = "How much may be refunded for a damaged book?"
    clerk_instructions: str = "You know the refund policy by heart."
    ruling: str = "Up to 60 euros without a manager; above that, offer a replacement first."
    refund_reason: str = "damaged on arrival"
    denial: str = "120 is over the limit: offer half and a replacement."
    second_reason: str = "half, with a replacement copy"
    receipt: str = "refund R-77 booked"
    hold_reason: str = "a person looks at every refund"
    label: str = "before the customer is answered"
    directive: str = "Apologise for the dented box."
    goodbye: str = "Sorry about the box! I have refunded 60 euros and a new copy is on its way."
