import { formatPath } from '../../../base/json.ts'
import type { SessionGuard } from '../../realtime-contract.ts'
import { checkUnpriced, refusalOf, toolGuard, unsupported } from '../../toolkit/tool-guard.ts'

/** Matches every frame that can name another model, which its delegate is, or a file of the provider's account. */
const marks = /"(?:delegation|responses|decisions|file_id)"/i

/** Blocks also frames that name models without a price, to which a session would delegate tasks, and stored files. */
export const liveGuard: SessionGuard = {
  ...toolGuard,
  suspects: frame => marks.test(frame.toString('latin1')) || toolGuard.suspects(frame),
  refusal: (frame, isPriced) =>
    refusalOf(frame, event => {
      checkUnpriced(event)
      checkNames(event, isPriced)
    }),
}

/** Names count wherever they are, apart from the session's own model and from functions, which the client runs. */
function checkNames(value: unknown, isPriced: (model: string) => boolean, path: readonly string[] = []): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, name]
    switch (name.toLowerCase()) {
      case 'tools':
        break
      case 'file_id':
        if (member !== null) throw unsupported('Files by id are not supported here.', at)
        break
      case 'model':
        if (typeof member !== 'string' || isPriced(member) || formatPath(at) === 'session.model') break
        throw unsupported(`There is no price for \`${formatPath([member])}\` here: name another model.`, at)
      default:
        checkNames(member, isPriced, at)
    }
  }
}
