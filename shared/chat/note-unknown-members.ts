import { noteUnknown } from '../base/unknown-names.ts'
import { accountHeaders, knownBetas, sentHeaders } from '../kinds/anthropic-headers.ts'
import { memberTables } from '../kinds/request-members.ts'
import type { Forwarded } from '../providers/contract.ts'

/** A request may have thousands of either. */
const maxNoted = 50

/** Notes the members of a request, and the headers and betas of its client, that the gateway does not know. */
export function noteUnknownMembers(kind: keyof typeof memberTables, body: object, forwarded?: Forwarded): void {
  const members = memberTables[kind]
  let noted = 0
  for (const name in body) {
    if (members.has(name)) continue
    noteUnknown('field', `${kind}.${name}`)
    if (++noted === maxNoted) break
  }
  if (!forwarded) return
  const { headers, dropped = [] } = forwarded
  for (const name of [...Object.keys(headers), ...dropped])
    if (!sentHeaders.has(name) && !accountHeaders.has(name)) noteUnknown('header', name)
  const betas = headers['anthropic-beta']
  if (!betas) return
  for (const text of betas.split(',', maxNoted)) {
    const name = text.trim()
    if (name !== '' && !knownBetas.has(name)) noteUnknown('beta', name)
  }
}
