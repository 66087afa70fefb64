import { type ErrorBody, GatewayError } from '../../../base/errors.ts'
import { formatPath } from '../../../base/json.ts'
import type { RealtimeAdapter } from '../../realtime-contract.ts'
import { withModel } from '../../toolkit/first-frame.ts'
import { findValue } from '../../toolkit/json-value.ts'
import { Meter } from './live-meter.ts'

/**
 * Google's Live API: JSON messages, Google's own in binary frames, the model in the client's `setup`, and a usage per
 * response (ai.google.dev/api/live). A message may interrupt a response, but which one is valid depends on the model
 * and the session's settings, and an invalid one ends the session: outstanding usage is awaited instead.
 */
export const live: RealtimeAdapter = {
  path: () => '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent',
  meter: () => new Meter(),
  opening(frame, target) {
    checkTools(findValue(frame, ['setup', 'tools'], 'The frame')?.value)
    return withModel(frame, 'setup', target, {
      upstreamName: `models/${target.deployment.upstream_model}`,
      bare: bareModelName,
    })
  },
  errorEvent,
}

/** Strips the prefix that Google's clients add to a model's name; that of Vertex AI is longer. */
function bareModelName(name: string): string {
  return name.replace(/^(?:publishers\/google\/)?models\//, '')
}

/** In either spelling that Google accepts. */
const sessionTools = /^(?:function_?declarations|code_?execution|url_?context)$/i

/**
 * Throws for tools that Google bills per call without reporting it in the session (its searches and maps), or that
 * access the operator's account (file search). Only the setup frame names tools.
 */
function checkTools(tools: unknown): void {
  for (const tool of Array.isArray(tools) ? tools : [tools]) {
    const unsupportedTool = Object.keys(tool ?? {}).find(name => !sessionTools.test(name))
    if (unsupportedTool === undefined) continue
    const message = `Sessions take functions, code execution and URL context as tools, and no \`${formatPath([unsupportedTool])}\`.`
    throw new GatewayError('unsupported_capability', message, { param: 'setup.tools' })
  }
}

/** Google's statuses (google.rpc.Code) for our error types. */
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

/** An error in the format of Google's APIs (google.aip.dev/193), with our code as its reason. */
function errorEvent({ message, type, code: reason, param }: ErrorBody['error']): string {
  const [code, status] = statuses[type] ?? [400, 'INVALID_ARGUMENT']
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'headgate' }
  const details = [{ ...info, ...(param !== null && { metadata: { param } }) }]
  return JSON.stringify({ error: { code, message, status, details } })
}
