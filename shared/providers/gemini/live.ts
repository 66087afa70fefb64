import { type ErrorBody, GatewayError } from '../../base/errors.ts'
import { nameOf } from '../../base/json.ts'
import { withModel } from '../first-frame.ts'
import { findValue } from '../json-value.ts'
import type { RealtimeAdapter } from '../realtime-contract.ts'
import { Meter } from './live-meter.ts'

/**
 * Google's Live API: JSON messages, Google's own in binary frames, the model in the client's `setup`, and a usage with
 * each answer (ai.google.dev/api/live). A message may interrupt an answer, but which one a model takes depends on the
 * model and the session's settings, and a wrong one ends the session: what is owed is waited for.
 */
export const live: RealtimeAdapter = {
  path: () => '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent',
  meter: () => new Meter(),
  opening(frame, target) {
    checkTools(findValue(frame, ['setup', 'tools'], 'The frame')?.value)
    return withModel(frame, 'setup', target, { upstreamName: `models/${target.deployment.upstream_model}`, bare })
  },
  errorEvent,
}

/** A model's name without what Google's clients put before it; those of Vertex AI have the longer one. */
function bare(name: string): string {
  return name.replace(/^(?:publishers\/google\/)?models\//, '')
}

/** In either spelling that Google takes. */
const sessionTools = /^(?:function_?declarations|code_?execution|url_?context)$/i

/**
 * Throws for tools that Google bills by the call without telling so in the session (its searches and maps), or that reach into
 * the operator's account (file search): a setup is the one frame that names tools.
 */
function checkTools(tools: unknown): void {
  for (const tool of Array.isArray(tools) ? tools : [tools]) {
    const other = Object.keys(tool ?? {}).find(name => !sessionTools.test(name))
    if (other === undefined) continue
    const message = `Sessions take functions, code execution and URL context as tools, and no \`${nameOf([other])}\`.`
    throw new GatewayError('unsupported_capability', message, { param: 'setup.tools' })
  }
}

/** What Google says by status (google.rpc.Code), for each type of our errors. */
const statuses: Record<string, [code: number, status: string]> = {
  authentication_error: [401, 'UNAUTHENTICATED'],
  billing_error: [402, 'RESOURCE_EXHAUSTED'],
  permission_error: [403, 'PERMISSION_DENIED'],
  not_found_error: [404, 'NOT_FOUND'],
  rate_limit_error: [429, 'RESOURCE_EXHAUSTED'],
  internal_error: [500, 'INTERNAL'],
  upstream_error: [502, 'UNAVAILABLE'],
  service_unavailable_error: [503, 'UNAVAILABLE'],
}

/** An error as Google's APIs write it (google.aip.dev/193), with our code as its reason. */
function errorEvent({ message, type, code: reason, param }: ErrorBody['error']): string {
  const [code, status] = statuses[type] ?? [400, 'INVALID_ARGUMENT']
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'headgate' }
  const details = [{ ...info, ...(param !== null && { metadata: { param } }) }]
  return JSON.stringify({ error: { code, message, status, details } })
}
