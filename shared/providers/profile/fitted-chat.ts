import { profileOf } from '../../catalog/chat-profile.ts'
import type { ChatRequest } from '../../kinds/chat.ts'
import type { Call, DirectAdapter, Target } from '../contract.ts'
import { withDropped } from '../toolkit/request-fields.ts'
import { ClientToolsDecoder, withClientTools } from './client-tools.ts'
import { fitChat } from './fit-chat.ts'
import { sentToolName } from './fit-tools.ts'
import { noTools } from './fitting.ts'

/**
 * A chat adapter whose requests fit the profile of their target. Tools that had to be renamed have the client's names in
 * its answers.
 */
export function fittedChat(chat: DirectAdapter<'chat'>): DirectAdapter<'chat'> {
  // Derived again for an answer: hardly a request has renamed tools, and to remember those of each costs collections.
  const toolsOf = ({ body, target }: Call<'chat'>) =>
    renamesTools(body, target) ? fitChat(body, target).tools : noTools
  const { stream } = chat
  return {
    ...chat,
    request(call) {
      const { body, dropped, adjusted } = fitChat(call.body, call.target)
      const request = chat.request(body === call.body ? call : { ...call, body, raw: null })
      if (dropped.length === 0 && adjusted.length === 0) return request
      return withDropped(adjusted.length > 0 ? { ...request, adjusted } : request, [
        ...dropped,
        ...(request.dropped ?? []),
      ])
    },
    answer: (json, call) => withClientTools(chat.answer(json, call), toolsOf(call)),
    ...(stream && {
      stream(call: Call<'chat'>) {
        const tools = toolsOf(call)
        return tools.size > 0 ? new ClientToolsDecoder(stream(call), tools) : stream(call)
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
