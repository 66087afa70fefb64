import { z } from 'zod'
import { oneLine } from '../../shared/base/one-line.ts'
import { roles } from '../../shared/base/roles.ts'
import { removedMemberKeyActions } from '../../shared/keys/removed-member-keys.ts'
import { maxNameCharacters, oidcProvider } from './accounts.ts'
import type { Alone } from './limits.ts'

const id = z.string().min(1).max(64)
const token = z.string().min(1).max(2_000)
const webAddress = /:\/\/|\/\/|\bwww\.|[\p{L}\d]\.\p{L}{2,}/iu

/** A name of a person or organisation, which appears in emails to others: one line without links. */
const name = oneLine(z.string().trim().min(1).max(maxNameCharacters)).refine(
  text => !webAddress.test(text),
  'must not contain a web address; put a space after a full stop',
)
/** Maximum length of an email address (RFC 5321). */
const email = z.email().max(254)
/** The library reports passwords that are too short. */
const password = z.string().max(128)
/** A page to redirect to must be one of ours. */
const page = z
  .string()
  .max(2_000)
  .regex(/^\/dashboard(?:\/|$)/, 'must be a page of the dashboard')
const role = z.enum(roles)
const nothing = z.strictObject({})
const ofInvitation = z.strictObject({ invitationId: id })
/** What to do with the keys created by a departing member. */
const keys = z.enum(removedMemberKeyActions).optional()
/** A code from an authenticator app. */
const code = z.string().regex(/^\d{6}$/, 'must be six digits')
/** Proof of identity: the password, or a code if there is none. */
const proof = { password: password.optional(), code: code.optional() }

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
const passkeyCreation = z.strictObject({
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
const passkeyUse = z.strictObject({
  ...credential,
  response: z.strictObject({
    clientDataJSON,
    authenticatorData: bytes(4_000).min(1),
    signature: bytes(4_000).min(1),
    userHandle: bytes(200).nullish(),
  }),
})

export type AuthRoute = {
  method: 'GET' | 'POST'
  /** Schema of its query, or its body. */
  takes: z.ZodObject
  /** What it reads and then changes, such as a number that has a limit: such requests run one at a time. */
  alone: Alone | null
}
const get = (takes: z.ZodObject): AuthRoute => ({ method: 'GET', takes, alone: null })
const post = (takes: z.ZodObject, alone: Alone | null = null): AuthRoute => ({ method: 'POST', takes, alone })
const alone = (takes: z.ZodObject): AuthRoute => post(takes, 'organisation')

/**
 * The routes of the library that the pages use, with their input schemas. The library has more, and passes much on to
 * the database unvalidated: routes not listed here are rejected.
 */
export const authRoutes: ReadonlyMap<string, AuthRoute> = new Map([
  ['/sign-up/email', post(z.strictObject({ name, email, password }))],
  ['/sign-in/email', post(z.strictObject({ email, password }))],
  [
    '/sign-in/oauth2',
    post(z.strictObject({ providerId: z.literal(oidcProvider), callbackURL: page, errorCallbackURL: page.optional() })),
  ],
  // A provider may add further parameters to it.
  [`/oauth2/callback/${oidcProvider}`, get(z.looseObject({}))],
  ['/sign-out', post(nothing)],
  ['/get-session', get(nothing)],
  ['/list-sessions', get(nothing)],
  ['/revoke-session', post(z.strictObject({ token }))],
  ['/verify-email', get(z.strictObject({ token }))],
  ['/send-verification-email', post(z.strictObject({ email }))],
  ['/request-password-reset', post(z.strictObject({ email }))],
  ['/reset-password', post(z.strictObject({ token, newPassword: password }))],
  ['/update-user', post(z.strictObject({ name }))],
  ['/change-email', post(z.strictObject({ newEmail: email }))],
  [
    '/change-password',
    post(
      z.strictObject({
        currentPassword: password,
        newPassword: password,
        revokeOtherSessions: z.boolean().optional(),
      }),
    ),
  ],
  ['/two-factor/enable', post(z.strictObject(proof), 'person')],
  ['/two-factor/disable', post(z.strictObject(proof), 'person')],
  ['/two-factor/generate-backup-codes', post(z.strictObject(proof), 'person')],
  ['/two-factor/verify-totp', post(z.strictObject({ code }))],
  ['/two-factor/verify-backup-code', post(z.strictObject({ code: z.string().trim().min(1).max(40) }))],
  ['/passkey/generate-register-options', get(nothing)],
  ['/passkey/verify-registration', post(z.strictObject({ ...proof, name, response: passkeyCreation }), 'person')],
  ['/passkey/generate-authenticate-options', get(nothing)],
  ['/passkey/verify-authentication', post(z.strictObject({ response: passkeyUse }))],
  ['/passkey/list-user-passkeys', get(nothing)],
  ['/passkey/update-passkey', post(z.strictObject({ id, name }))],
  ['/passkey/delete-passkey', post(z.strictObject({ ...proof, id }))],
  ['/organization/create', post(z.strictObject({ name, slug: id }), 'person')],
  ['/organization/update', alone(z.strictObject({ organizationId: id, data: z.strictObject({ name }) }))],
  [
    '/organization/list-members',
    get(
      z.strictObject({
        organizationId: id,
        limit: z.coerce.number().int().min(1).max(500).optional(),
        sortBy: z.literal('createdAt').optional(),
      }),
    ),
  ],
  ['/organization/update-member-role', alone(z.strictObject({ organizationId: id, memberId: id, role }))],
  [
    '/organization/remove-member',
    alone(z.strictObject({ organizationId: id, memberIdOrEmail: z.string().min(1).max(254), keys })),
  ],
  ['/organization/leave', alone(z.strictObject({ organizationId: id, keys }))],
  ['/organization/list-invitations', get(z.strictObject({ organizationId: id }))],
  ['/organization/invite-member', alone(z.strictObject({ organizationId: id, email, role }))],
  ['/organization/cancel-invitation', alone(ofInvitation)],
  ['/organization/get-invitation', get(z.strictObject({ id }))],
  ['/organization/accept-invitation', alone(ofInvitation)],
  ['/organization/reject-invitation', alone(ofInvitation)],
])
