/** The route of the API that serves each type of request that can be sent again; jobs and sessions have others. */
export const paths: Record<string, string> = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  // Shown as the chat completion that does the same.
  generate_content: '/v1/chat/completions',
  completion: '/v1/completions',
  embedding: '/v1/embeddings',
}

/** Whether a request can be shown as code. */
export function hasCode({ type, model }: { type: string; model: string }): boolean {
  return paths[type] !== undefined && model !== ''
}

/** The tab of the playground for each type. */
export const tabs: Record<string, string> = {
  chat: 'chat',
  messages: 'chat',
  responses: 'chat',
  completion: 'completions',
  embedding: 'embeddings',
  image: 'image',
  speech: 'speech',
  transcription: 'transcription',
  music: 'music',
  sfx: 'sfx',
  video: 'video',
  lipsync: 'lipsync',
  face_swap: 'face_swap',
  avatar: 'avatar',
  mesh: 'mesh',
  realtime: 'realtime',
}
