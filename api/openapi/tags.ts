/** The sections of the reference, in their order. */
export const tags = [
  { name: 'Chat', description: 'Chat completions, and the routing decision behind `model: "auto"`.' },
  { name: 'Embeddings', description: 'Vectors of texts.' },
  { name: 'Models', description: 'What can be named as `model`.' },
  { name: 'Images', description: 'Images from prompts and from other images.' },
  { name: 'Audio', description: 'Speech, transcripts, music and sound effects.' },
  {
    name: 'Video',
    description:
      'Videos are made by jobs: create one, then retrieve it until `status` is terminal, or be told by a webhook.',
  },
  { name: 'Lip sync', description: 'Jobs that make a face speak an audio.' },
  { name: 'Face swap', description: 'Jobs that put a face into a video.' },
  { name: 'Talking avatars', description: 'Jobs that make an avatar speak, and the catalogs of avatars and voices.' },
  { name: '3D', description: 'Jobs that make meshes.' },
  { name: 'Realtime', description: 'WebSocket sessions with models that hear and speak.' },
  { name: 'Uploads', description: 'Files that requests refer to, for half an hour.' },
  { name: 'Async jobs', description: 'Chat completions that may take hours, for less.' },
  { name: 'Files', description: 'Inputs and outputs of batches.' },
  { name: 'Batches', description: 'Up to 50,000 requests at once, at half the price, within 24 hours.' },
  { name: 'Wallet', description: 'The prepaid balance, and what each request cost.' },
  { name: 'Provisioning', description: 'Management of keys, by a provisioning key.' },
  { name: 'Webhooks', description: 'What the gateway posts to your `webhook_url`, signed by Standard Webhooks.' },
  { name: 'Service', description: 'Health, this document, and what providers report.' },
]
