import { z } from 'zod'
import { operatorActor } from '../../shared/io/audit.ts'
import { confirmAddress } from '../auth/confirm-address.ts'
import { resetSecondFactor, setOperator, unlinkEverybody, unlinkSingleSignOn } from '../auth/operators.ts'
import { type Command, command } from './parse.ts'

const maxListed = 10_000

type Row = { id: string; email: string; name: string; emailVerified: boolean; operator: boolean }
const record = ({ id, email, name, emailVerified, operator }: Row) => ({
  id,
  email,
  name,
  email_verified: emailVerified,
  operator,
})
type Shown = ReturnType<typeof record>

const line = ({ id, email, name, email_verified: isVerified, operator }: Shown) =>
  `${id}  ${operator ? 'operator' : 'user    '}  ${email}${isVerified ? '' : ' (not confirmed)'}  ${name}`

export const users: Command[] = [
  command({
    name: 'user promote',
    summary: 'Makes a user an operator, or with --demote an ordinary user.',
    help: '--email E [--demote]',
    flags: z.strictObject({ email: z.email(), demote: z.boolean().default(false) }),
    async run(services, { email, demote }) {
      const data = record(await setOperator(services, { email }, !demote, operatorActor))
      return { data: { data }, text: line(data) }
    },
  }),
  command({
    name: 'user verify',
    summary: 'Confirms the email address of a user, as the link of the email does.',
    help: '--email E',
    flags: z.strictObject({ email: z.email() }),
    async run(services, { email }) {
      const data = record(await confirmAddress(services, email))
      return { data: { data }, text: line(data) }
    },
  }),
  command({
    name: 'user reset-two-factor',
    summary: 'Removes the authenticator app and passkeys of a user who lost them.',
    help: '--email E',
    flags: z.strictObject({ email: z.email() }),
    async run(services, { email }) {
      const data = record(await resetSecondFactor(services, email))
      return { data: { data }, text: `${line(data)}: signs in with the password alone` }
    },
  }),
  command({
    name: 'user unlink-single-sign-on',
    summary: 'Lets another identity of single sign-on take the place of a person’s, or of everybody’s.',
    help: '--email E | --all',
    flags: z
      .strictObject({ email: z.email().optional(), all: z.boolean().default(false) })
      .refine(({ email, all }) => all === (email === undefined), 'takes either --email or --all'),
    async run(services, { email }) {
      if (email === undefined) {
        const people = await unlinkEverybody(services)
        return { data: { data: { people } }, text: `${people} people: signed out, and linked again by their address` }
      }
      const data = record(await unlinkSingleSignOn(services, email))
      return { data: { data }, text: `${line(data)}: signed out, and linked again by the address` }
    },
  }),
  command({
    name: 'user list',
    summary: 'Lists all users, with those whose address is not confirmed.',
    help: '',
    flags: z.strictObject({}),
    async run({ db }) {
      const rows = await db.user.findMany({ orderBy: { createdAt: 'asc' }, take: maxListed })
      const data = rows.map(record)
      return { data: { data }, text: data.map(line).join('\n') || 'No users yet.' }
    },
  }),
]
