import { z } from 'zod'
import { findObjects } from '../find-object.ts'
import { type Command, command } from './parse.ts'

export const find: Command[] = [
  command({
    name: 'find',
    help: 'ID|EMAIL|NAME',
    flags: z.strictObject({ text: z.string().trim().min(2).max(200) }),
    operand: 'text',
    async run(services, { text }) {
      const data = await findObjects(services, text)
      const { publicUrl } = services.config
      const lines = data.map(({ kind, label, note, path }) => {
        return `${kind}  ${label}${note === null ? '' : `  ${note}`}\n  ${publicUrl}/dashboard${path}`
      })
      const exitCode = data.length > 0 ? 0 : 1
      return { data: { data }, text: lines.join('\n') || `nothing has the id or name ${text}`, exitCode }
    },
  }),
]
