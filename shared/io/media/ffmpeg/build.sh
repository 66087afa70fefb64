#!/bin/sh
# Compiles measure.c, aac-blocks.c and FFmpeg's demuxers and parsers to measure.wasm. Needs Debian 12 (bookworm) with
#   apt-get install clang-14 lld-14 llvm-14 wasi-libc libclang-rt-14-dev-wasm32 binaryen make xz-utils
# The sources of FFmpeg are those in the npm package libav.js, or a path: ./build.sh ffmpeg-9.0.tar.xz
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=${1:-}
if [ -z "$archive" ]; then
  (cd "$work" && npm pack --silent libav.js@6.10.9 >/dev/null && tar xzf libav.js-6.10.9.tgz)
  archive=$work/package/sources/ffmpeg-9.0.tar.xz
fi
echo "7f607a00dd0d28a729d5a4811205812eef01cf6ef6155025febb6f36a9062d52  $archive" | sha256sum --check --quiet
tar xJf "$archive" -C "$work"
mkdir "$work/build" && cd "$work/build"

# No protocol, no network, no decoder: what is not compiled in cannot be reached by a file.
demuxers=aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,eac3,flac,flv,gsm,loas,matroska,mov,mp3,mpegps,mpegts,mpegvideo,ogg,tta,w64,wav,wv
parsers=aac,aac_latm,ac3,amr,dca,flac,gsm,mlp,mpegaudio,mpegvideo,opus,vorbis
target='--target=wasm32-wasi --sysroot=/usr'
../ffmpeg-9.0/configure --enable-cross-compile --target-os=none --arch=wasm32 \
  --cc=clang-14 --ar=llvm-ar-14 --ranlib=llvm-ranlib-14 --nm=llvm-nm-14 \
  --extra-cflags="$target -O2 -D_WASI_EMULATED_PROCESS_CLOCKS -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID" \
  --extra-ldflags="$target -lwasi-emulated-process-clocks -lwasi-emulated-signal -lwasi-emulated-getpid" \
  --disable-everything --disable-all --disable-autodetect --disable-asm --disable-inline-asm --disable-pthreads \
  --disable-network --disable-debug --disable-programs --disable-iconv \
  --enable-avcodec --enable-avformat --enable-demuxer=$demuxers --enable-parser=$parsers >/dev/null
make -j"$(nproc)" >/dev/null

# Linked without optimization: the driver's own call of wasm-opt knows no SIMD. 256 MB is the most that a file may take.
clang-14 $target -O2 -msimd128 -I. -I../ffmpeg-9.0 -c "$here/measure.c" "$here/aac-blocks.c" ../ffmpeg-9.0/libavcodec/aactab.c
clang-14 $target -mexec-model=reactor -o measure.wasm measure.o aac-blocks.o aactab.o -Llibavformat -Llibavcodec -Llibavutil -lavformat -lavcodec -lavutil \
  -lwasi-emulated-process-clocks -lwasi-emulated-signal -lwasi-emulated-getpid \
  -Wl,--max-memory=268435456 -Wl,-z,stack-size=1048576 -Wl,--strip-all -Wl,--gc-sections
wasm-opt -O3 --enable-bulk-memory --enable-simd measure.wasm -o "$here/measure.wasm"
