import { z } from 'zod'
import { clearAnswers } from '../../shared/chat/response-cache.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { findOrganisation, org } from './flags.ts'
import { type Command, command } from './parse.ts'

export const cacheCommands: Command[] = [
  command({
    name: 'cache clear',
    summary: 'Removes all cached answers of an organisation.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const cleared = await clearAnswers(services, org, operatorActor)
      return { data: { org, cleared }, text: `${cleared} cached answers are removed` }
    },
  }),
]
