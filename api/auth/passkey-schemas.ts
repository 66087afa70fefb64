import { z } from 'zod'

/** Bytes in base64url, as browsers encode parts of a credential. */
const bytes = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[\w-]*={0,2}$/, 'must be base64url')
const clientDataJSON = bytes(4_000)

/** Fields shared by creation and use of a passkey (WebAuthn's JSON form of a PublicKeyCredential). */
const credential = {
  id: bytes(1_400).min(1),
  rawId: bytes(1_400).min(1),
  type: z.literal('public-key'),
  authenticatorAttachment: z.string().max(40).nullish(),
  // No extension is requested.
  clientExtensionResults: z.object({}),
}

/** The browser's response after creating a passkey. */
export const passkeyCreation = z.strictObject({
  ...credential,
  response: z.strictObject({
    clientDataJSON,
    attestationObject: bytes(20_000).min(1),
    authenticatorData: bytes(20_000).optional(),
    transports: z
      .array(z.string().regex(/^[a-z-]{1,20}$/, 'must be a transport'))
      .max(10)
      .optional(),
    publicKeyAlgorithm: z.int().optional(),
    publicKey: bytes(4_000).optional(),
  }),
})

/** The browser's response when signing in with a passkey. */
export const passkeyUse = z.strictObject({
  ...credential,
  response: z.strictObject({
    clientDataJSON,
    authenticatorData: bytes(4_000).min(1),
    signature: bytes(4_000).min(1),
    userHandle: bytes(200).nullish(),
  }),
})
