import { z } from 'zod'
import { operatorActor } from '../../shared/io/audit.ts'
import { setSuspension } from '../../shared/keys/suspensions.ts'
import { setPersonSuspension } from '../auth/suspensions.ts'
import { org, reason } from './flags.ts'
import { type Command, command } from './parse.ts'

const email = z.email()
const personOf = ({ id, email }: { id: string; email: string }) => ({ id, email })

export const suspensions: Command[] = [
  command({
    name: 'org suspend',
    summary: 'Stops all keys of an organisation; its members can only read its data.',
    help: '--org ID --reason R',
    flags: z.strictObject({ org, reason }),
    async run(services, { org, reason }) {
      await setSuspension(services, org, reason, operatorActor)
      return { data: { org, suspended: true, reason }, text: `${org} is suspended` }
    },
  }),
  command({
    name: 'org resume',
    summary: 'Ends the suspension of an organisation.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await setSuspension(services, org, null, operatorActor)
      return { data: { org, suspended: false }, text: `${org} is not suspended` }
    },
  }),
  command({
    name: 'user suspend',
    summary: 'Signs a user out and keeps them from signing in.',
    help: '--email E --reason R',
    flags: z.strictObject({ email, reason }),
    async run(services, { email, reason }) {
      const user = personOf(await setPersonSuspension(services, { email }, reason, operatorActor))
      return { data: { ...user, suspended: true, reason }, text: `${user.email} is suspended` }
    },
  }),
  command({
    name: 'user resume',
    summary: 'Lets a suspended user sign in again.',
    help: '--email E',
    flags: z.strictObject({ email }),
    async run(services, { email }) {
      const user = personOf(await setPersonSuspension(services, { email }, null, operatorActor))
      return { data: { ...user, suspended: false }, text: `${user.email} is not suspended` }
    },
  }),
]
