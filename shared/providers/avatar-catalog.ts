/** The talking avatars and voices of a provider: a query and one page of results. */

export type CatalogQuery = { type?: string; language?: string; token: string | null; limit: number }
export type Avatar = {
  id: string
  name: string
  type: string
  gender: string | null
  preview_image_url: string | null
  preview_video_url: string | null
  default_voice_id: string | null
}
export type Voice = {
  id: string
  name: string
  language: string | null
  gender: string | null
  preview_audio_url: string | null
}
export type CatalogPage<Entry> = { data: Entry[]; nextToken: string | null }
