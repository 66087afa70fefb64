/**
 * Tokens per image where neither the provider's usage nor a model's own `image_tokens_max` (see `traits.ts`) states them. An
 * estimate is used for routing, rate limits and usage that a provider does not report; a bound is what a reservation covers.
 */
export const imageTokens = {
  /** An image of a prompt, of unknown size. */
  inputEstimate: 1_000,
  /** A generated image of about one megapixel: Gemini's count. */
  outputEstimate: 1_290,
  /** An image to edit, at high fidelity. */
  referenceBound: 7_000,
  /** More than a 1.5-megapixel image of the highest quality, including the reasoning of a model that reasons first. */
  outputBound: 8_192,
  /** A partial image of a stream: OpenAI's count. */
  preview: 100,
  /** The maximum of an image or video frame that a client adds to a realtime session, by protocol. */
  realtimeBound: { gemini: 1_290, openai: 5_000 },
  /** What the sandbox reports: an image in chat, an image to edit, and each megapixel of a generated one. */
  sandbox: { chat: 258, reference: 300, perMegapixel: 1_000 },
} as const
