/** What to say of the commonest of Stripe's codes (https://docs.stripe.com/declines/codes). */
const texts: Record<string, string> = {
  authentication_required:
    'The bank wants the holder of the card to authenticate: add credits by hand, where that is possible.',
  insufficient_funds: 'The card has insufficient funds.',
  expired_card: 'The card has expired.',
  card_declined: 'The bank declined the card.',
  generic_decline: 'The bank declined the card.',
  do_not_honor: 'The bank declined the card.',
  lost_card: 'The bank declined the card.',
  stolen_card: 'The bank declined the card.',
  resource_missing: 'The payment provider does not have the card any more.',
  not_charged: 'The payment provider could not be reached.',
}

/** A sentence about why a saved card was not charged. */
export function failureText(code: string): string {
  return texts[code] ?? `The payment provider’s reason: ${code.replaceAll('_', ' ')}.`
}
