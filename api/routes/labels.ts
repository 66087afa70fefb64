import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import type { RequestLabels } from '../../shared/engine/report.ts'
import type { Header } from '../endpoint.ts'

const tagsName = 'x-gateway-tags'
const userName = 'x-gateway-user'
const maxTags = 16
const maxNameLength = 64
const maxValueLength = 128
const maxUserLength = 200
/** As much as the tags may be at most. */
const maxHeaderLength = maxTags * (maxNameLength + maxValueLength + 3)

/** The headers that attribute a request, in the request log and in usage. */
export const labelHeaders: Header[] = [
  {
    name: tagsName,
    maxLength: maxHeaderLength,
    description: `Tags of the request, such as \`project:acme,env:prod\`: at most ${maxTags} pairs. They are added to \`metadata\` in the request log, and usage can be grouped by them.`,
  },
  {
    name: userName,
    maxLength: maxUserLength,
    description: 'The end user of the request in the request log and in usage; takes precedence over `user`.',
  },
]

/** What the headers of a request attribute it to; null if they name nothing. Throws 400. */
export function labelsOf(headers: IncomingHttpHeaders): RequestLabels | null {
  const tags = headers[tagsName]
  const user = headers[userName]
  if (tags === undefined && user === undefined) return null
  const labels: RequestLabels = {}
  if (user !== undefined && user !== '') labels.user = assertShort(userName, String(user), maxUserLength)
  if (tags !== undefined && tags !== '') labels.tags = parseTags(assertShort(tagsName, String(tags), maxHeaderLength))
  return labels
}

function parseTags(text: string): Record<string, string> {
  const tags: Record<string, string> = Object.create(null)
  const pairs = text.split(',').filter(pair => pair.trim() !== '')
  if (pairs.length > maxTags) throw invalid(tagsName, `has at most ${maxTags} tags`)
  for (const pair of pairs) {
    const colon = pair.indexOf(':')
    const name = pair.slice(0, Math.max(0, colon)).trim()
    const value = pair.slice(colon + 1).trim()
    if (name === '' || value === '') throw invalid(tagsName, 'must be pairs such as project:acme, separated by commas')
    if (name.length > maxNameLength || value.length > maxValueLength)
      throw invalid(tagsName, `takes names of up to ${maxNameLength} and values of up to ${maxValueLength} characters`)
    tags[name] = value
  }
  return tags
}

function assertShort(name: string, text: string, max: number): string {
  if (text.length <= max) return text
  throw invalid(name, `must have at most ${max} characters`)
}

function invalid(param: string, fault: string): GatewayError {
  return new GatewayError('invalid_request', `${param} ${fault}.`, { param })
}
