// A webhook in Go for comparison: it reads a review's uid and says yes, with the same patch each time if it is given one.
package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

type asked struct {
	Request struct {
		UID string `json:"uid"`
	} `json:"request"`
}

type answer struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType,omitempty"`
	Patch     string `json:"patch,omitempty"`
}

type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Response   answer `json:"response"`
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("certificate", "", "file")
	key := flag.String("key", "", "file")
	patchFile := flag.String("patch", "", "file with a JSON Patch to answer with")
	flag.Parse()
	said := answer{Allowed: true}
	if *patchFile != "" {
		patch, err := os.ReadFile(*patchFile)
		if err != nil {
			log.Fatal(err)
		}
		said.PatchType = "JSONPatch"
		said.Patch = base64.StdEncoding.EncodeToString(patch)
	}
	http.HandleFunc("/", func(writer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		var one asked
		if err := json.Unmarshal(body, &one); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		response := said
		response.UID = one.Request.UID
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(review{"admission.k8s.io/v1", "AdmissionReview", response})
	})
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	log.Fatal(http.Serve(tls.NewListener(listener, settings), nil))
}
