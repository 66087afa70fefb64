import { profileOf } from '../../catalog/chat-profile.ts'
import type { ChatRequest } from '../../kinds/chat.ts'
import type { Call, DirectAdapter, Target } from '../contract.ts'
import { withDropped } from '../toolkit/request-fields.ts'
import { ClientToolsDecoder, withClientTools } from './client-tools.ts'
import { fitChat } from './fit-chat.ts'
import { sentToolName } from './fit-tools.ts'
import type { Fitting } from './fitting.ts'

type FittedCall = { call: Call<'chat'>; fitting: Fitting }

/**
 * A chat adapter whose requests fit the profile of their target. Tools that had to be renamed have the client's names in
 * its answers.
 */
export function fittedChat(chat: DirectAdapter<'chat'>): DirectAdapter<'chat'> {
  const fittedCalls = new WeakMap<Call<'chat'>, FittedCall>()
  const fittedOf = (call: Call<'chat'>): FittedCall => {
    let fitted = fittedCalls.get(call)
    if (!fitted) {
      const fitting = fitChat(call.body, call.target)
      fitted = { fitting, call: fitting.body === call.body ? call : { ...call, body: fitting.body, raw: null } }
      fittedCalls.set(call, fitted)
    }
    return fitted
  }
  const { stream } = chat
  return {
    ...chat,
    request(original) {
      const { call, fitting } = fittedOf(original)
      const request = chat.request(call)
      if (fitting.dropped.length === 0 && fitting.adjusted.length === 0) return request
      const adjusted = fitting.adjusted.length > 0 ? { ...request, adjusted: fitting.adjusted } : request
      return withDropped(adjusted, [...fitting.dropped, ...(request.dropped ?? [])])
    },
    answer(json, original) {
      const { call, fitting } = fittedOf(original)
      return withClientTools(chat.answer(json, call), fitting.tools)
    },
    ...(stream && {
      stream(original: Call<'chat'>) {
        const { call, fitting } = fittedOf(original)
        const decoder = stream(call)
        return fitting.tools.size > 0 ? new ClientToolsDecoder(decoder, fitting.tools) : decoder
      },
    }),
  }
}

/** Whether tools of a request are sent under other names, so that its answer cannot be passed on as bytes. */
export function renamesTools({ tools }: ChatRequest, target: Target): boolean {
  if (!tools?.length) return false
  const profile = profileOf(target)
  return tools.some(tool => {
    if (tool.type === 'custom')
      return !profile.custom_tools || sentToolName(tool.custom.name, profile) !== tool.custom.name
    return sentToolName(tool.function.name, profile) !== tool.function.name
  })
}
