/** The sections of the reference, in display order. */
export const tags = [
  { name: 'Chat', description: 'Chat completions, and the routing decision behind `model: "auto"`.' },
  { name: 'Messages', description: 'Chat in Anthropic’s Messages format, with any chat model.' },
  { name: 'Responses', description: 'Chat in OpenAI’s Responses format, with any chat model.' },
  { name: 'Gemini', description: 'Chat and embeddings in the format of Google’s Gemini API, with any model.' },
  { name: 'Conversations', description: 'Stored conversations, which responses continue.' },
  { name: 'Embeddings', description: 'Vector representations of text.' },
  { name: 'Rerank', description: 'Rank documents by their relevance to a query.' },
  { name: 'Moderations', description: 'Find harmful texts and images.' },
  { name: 'OCR', description: 'Read documents and images as Markdown.' },
  { name: 'Models', description: 'List the models that can be used as `model`.' },
  { name: 'Images', description: 'Create images from prompts and edit images.' },
  { name: 'Audio', description: 'Speech, transcription, translation, music and sound effects.' },
  {
    name: 'Video',
    description:
      'Videos are created by jobs: create a job, then retrieve it until `status` is terminal, or receive a webhook.',
  },
  { name: 'Lip sync', description: 'Jobs that synchronise the lips of a face to audio.' },
  { name: 'Face swap', description: 'Jobs that swap a face into a video.' },
  { name: 'Talking avatars', description: 'Jobs that make an avatar speak, and the catalogs of avatars and voices.' },
  { name: '3D', description: 'Jobs that create 3D meshes.' },
  { name: 'Realtime', description: 'WebSocket sessions with speech-to-speech models.' },
  { name: 'Uploads', description: 'Temporary files that requests refer to by URL.' },
  {
    name: 'Delayed jobs',
    description: 'Chat completions, responses and messages that complete within a window of hours, at a discount.',
  },
  { name: 'Files', description: 'Input and output files of batches.' },
  { name: 'Batches', description: 'Run up to 50,000 requests within 24 hours at half the price.' },
  { name: 'Wallet', description: 'The prepaid balance, and the cost of each request.' },
  { name: 'Provisioning', description: 'Manage API keys, and retrieve usage, with a provisioning key.' },
  { name: 'Presets', description: 'Manage saved models with settings, with a provisioning key.' },
  {
    name: 'Webhook endpoints',
    description: 'Manage the URLs that receive the organisation’s events, with a provisioning key.',
  },
  {
    name: 'Log exports',
    description: 'Deliver the request log, the audit log and logged content to your systems, with a provisioning key.',
  },
  {
    name: 'Webhooks',
    description:
      'Events sent to your endpoints and to the `webhook_url` of jobs and batches, signed as specified by Standard Webhooks.',
  },
  { name: 'Service', description: 'Health checks, this document, and provider callbacks.' },
]
