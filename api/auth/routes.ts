import { z } from 'zod'
import { mostNameCharacters, oidcProvider } from './accounts.ts'
import { roles } from './roles.ts'

const id = z.string().min(1).max(64)
const token = z.string().min(1).max(2_000)
/** Names stand in emails and on pages. */
const name = z
  .string()
  .trim()
  .min(1)
  .max(mostNameCharacters)
  .regex(/^[^\p{Cc}\u2028\u2029]*$/u, 'must be one line')
/** As long as an address can be (RFC 5321). */
const email = z.email().max(254)
/** The library says what is too short. */
const password = z.string().max(128)
/** A page to go on to is one of ours. */
const page = z
  .string()
  .max(2_000)
  .regex(/^\/dashboard(?:\/|$)/, 'must be a page of the dashboard')
const role = z.enum(roles)
const nothing = z.strictObject({})
const ofInvitation = z.strictObject({ invitationId: id })

export type AuthRoute = {
  method: 'GET' | 'POST'
  /** Its query, or its body. */
  takes: z.ZodObject
  /** True where it looks at an organisation and then changes it or its members: one such request at a time. */
  alone: boolean
}
const get = (takes: z.ZodObject): AuthRoute => ({ method: 'GET', takes, alone: false })
const post = (takes: z.ZodObject): AuthRoute => ({ method: 'POST', takes, alone: false })
const alone = (takes: z.ZodObject): AuthRoute => ({ method: 'POST', takes, alone: true })

/**
 * The library's routes that the pages use, and what each takes. It has more, and passes much on to the database unseen:
 * whatever is not here is refused at the door.
 */
export const authRoutes: ReadonlyMap<string, AuthRoute> = new Map([
  ['/sign-up/email', post(z.strictObject({ name, email, password }))],
  ['/sign-in/email', post(z.strictObject({ email, password }))],
  [
    '/sign-in/oauth2',
    post(z.strictObject({ providerId: z.literal(oidcProvider), callbackURL: page, errorCallbackURL: page.optional() })),
  ],
  // What a provider adds to it is its own affair.
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
  ['/organization/create', post(z.strictObject({ name, slug: id }))],
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
    alone(z.strictObject({ organizationId: id, memberIdOrEmail: z.string().min(1).max(254) })),
  ],
  ['/organization/leave', alone(z.strictObject({ organizationId: id }))],
  ['/organization/list-invitations', get(z.strictObject({ organizationId: id }))],
  ['/organization/invite-member', alone(z.strictObject({ organizationId: id, email, role }))],
  ['/organization/cancel-invitation', post(ofInvitation)],
  ['/organization/get-invitation', get(z.strictObject({ id }))],
  ['/organization/accept-invitation', post(ofInvitation)],
  ['/organization/reject-invitation', post(ofInvitation)],
])
